package layout

import (
	"regexp"
	"slices"
	"strings"
)

// settingTag finds the environment variables that a settings struct declares, comments left out.
var settingTag = regexp.MustCompile("(?m)^\\s*[^/\\s].*(?:envconfig|chain):\"([A-Z0-9_,]+)\"")

// UndocumentedSettings are the environment variables that sources declare and document does not name in code quotes.
func UndocumentedSettings(sources []string, document string) []string {
	var out []string
	for _, source := range sources {
		for _, tag := range settingTag.FindAllStringSubmatch(source, -1) {
			for name := range strings.SplitSeq(tag[1], ",") {
				named := regexp.MustCompile("`" + name + `\b`)
				if !named.MatchString(document) && !slices.Contains(out, name) {
					out = append(out, name)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

var link = regexp.MustCompile(`\]\(([^)#\s]+)(?:#[^)]*)?\)`)

// BrokenLinks are the relative links of a Markdown text whose target, as written, does not exist.
func BrokenLinks(text string, exists func(target string) bool) []string {
	var out []string
	for _, match := range link.FindAllStringSubmatch(text, -1) {
		if target := match[1]; !strings.Contains(target, "://") && !exists(target) {
			out = append(out, target)
		}
	}
	return out
}

// quoted is what stands in code quotes.
var quoted = regexp.MustCompile("`([^`\\s]+)`")

// UnexplainedLibraries are the outside packages that the project imports, also in tests, and document does not name in
// code quotes by their module or by a part of its path; the prefix github.com/ is left out there.
func UnexplainedLibraries(t Tree, document string) []string {
	var named []string
	for _, match := range quoted.FindAllStringSubmatch(document, -1) {
		named = append(named, match[1])
	}
	return eachImport(t, true, func(_ Package, to string) string {
		host, _, _ := strings.Cut(to, "/")
		if within(to, Root) || !strings.Contains(host, ".") {
			return ""
		}
		path := strings.TrimPrefix(to, "github.com/")
		if slices.ContainsFunc(named, func(name string) bool { return within(path, name) }) {
			return ""
		}
		return to
	})
}
