package schema_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"queen.internal/pkg/schema"
)

func TestSplit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		src  string
		want []string
	}{
		"Nothing":                  {"", nil},
		"OnlyComments":             {"-- a; b\n/* c; */ ; ;\n", nil},
		"Two":                      {"SELECT 1;\nSELECT 2;", []string{"SELECT 1", "SELECT 2"}},
		"LastWithoutSemicolon":     {"SELECT 1;SELECT 2", []string{"SELECT 1", "SELECT 2"}},
		"CommentsAround":           {"-- first\nSELECT 1 -- one;\n; /* and */ SELECT 2 /* two */;", []string{"SELECT 1", "SELECT 2"}},
		"CommentInside":            {"SELECT /* ; */ 1", []string{"SELECT /* ; */ 1"}},
		"NestedComment":            {"/* a /* b; */ c; */ SELECT 1;", []string{"SELECT 1"}},
		"CommentOverlap":           {"/*/ ; */ SELECT 1;", []string{"SELECT 1"}},
		"SingleQuotes":             {"SELECT 'a;''b;'; SELECT 2", []string{"SELECT 'a;''b;'", "SELECT 2"}},
		"BackslashIsPlain":         {`SELECT 'a\'; SELECT 2`, []string{`SELECT 'a\'`, "SELECT 2"}},
		"BackslashEscapesInE":      {`SELECT E'a\';b'; SELECT e'\\'; SELECT 3`, []string{`SELECT E'a\';b'`, `SELECT e'\\'`, "SELECT 3"}},
		"EAtTheEndOfAWord":         {`SELECT date'\'; SELECT 2`, []string{`SELECT date'\'`, "SELECT 2"}},
		"DoubleQuotes":             {`SELECT "a;""b"; SELECT 2`, []string{`SELECT "a;""b"`, "SELECT 2"}},
		"CommentSignsInQuotes":     {"SELECT '--', '/*'; SELECT 2", []string{"SELECT '--', '/*'", "SELECT 2"}},
		"DollarQuotes":             {"DO $$ BEGIN; END $$; SELECT 2", []string{"DO $$ BEGIN; END $$", "SELECT 2"}},
		"TaggedDollarQuotes":       {"DO $a$ $$ ; $b$ ; $a$; SELECT 2", []string{"DO $a$ $$ ; $b$ ; $a$", "SELECT 2"}},
		"QuotesInDollarQuotes":     {"DO $$ it's; $$; SELECT 2", []string{"DO $$ it's; $$", "SELECT 2"}},
		"DollarInAWord":            {"SELECT a$b$c; SELECT d$b$", []string{"SELECT a$b$c", "SELECT d$b$"}},
		"Parameter":                {"SELECT $1; SELECT $2", []string{"SELECT $1", "SELECT $2"}},
		"UnicodeTag":               {"DO $é1$ ; $é1$; SELECT 2", []string{"DO $é1$ ; $é1$", "SELECT 2"}},
		"UnicodeWords":             {"SELECT größe;SELECT 'ü;'", []string{"SELECT größe", "SELECT 'ü;'"}},
		"BeginAloneIsNoBody":       {"BEGIN; SELECT atomic", []string{"BEGIN", "SELECT atomic"}},
		"WordsThatOnlyStartLikeIt": {"SELECT begin_, atomics", []string{"SELECT begin_, atomics"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := schema.Split(tc.src)
			if err != nil {
				t.Fatal(err)
			}
			var texts []string
			for _, s := range got {
				texts = append(texts, s.Text)
				if line := 1 + strings.Count(tc.src[:s.Offset], "\n"); s.Line != line || !strings.HasPrefix(tc.src[s.Offset:], s.Text) {
					t.Errorf("%q is said to be at line %d, offset %d", s.Text, s.Line, s.Offset)
				}
			}
			if diff := cmp.Diff(tc.want, texts); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

func TestSplitSaysWhereTheTextBreaks(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		src  string
		line int
	}{
		"OpenQuote":       {"SELECT 1;\nSELECT 'a;\n", 2},
		"OpenName":        {"SELECT \"a;", 1},
		"OpenDollarQuote": {"\n\nDO $a$ $b$ $$", 3},
		"OpenComment":     {"SELECT 1;\n/* a /* b */", 2},
		"OpenEscape":      {`SELECT E'\'`, 1},
		"AtomicBody":      {"CREATE FUNCTION f() RETURNS int\nBEGIN /* ; */ atomic SELECT 1; END;", 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := schema.Split(tc.src)
			var split *schema.SplitError
			if !errors.As(err, &split) || split.Line != tc.line {
				t.Fatalf("got %v, want line %d", err, tc.line)
			}
		})
	}
}

func FuzzSplit(f *testing.F) {
	for _, seed := range []string{
		"", ";", "SELECT 1; SELECT 2", "-- c\nSELECT ';'", `SELECT E'\';'`, `"a;""b"`, "DO $$;$$;", "DO $a$ $$ ; $a$;", "a$b$;$b$",
		"/* /* */ ; */ SELECT 1 /* x */;", "/*/", "$1;$", "'", "$$", "BEGIN ATOMIC", "1e';'", "\xff;\xc3", "é$é$;$é$", "--", "-", "/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, src string) {
		statements, err := schema.Split(src)
		if err != nil {
			if len(statements) != 0 {
				t.Fatalf("both statements and %v", err)
			}
			return
		}
		end := 0
		for _, s := range statements {
			if s.Text == "" || s.Offset < end || !strings.HasPrefix(src[s.Offset:], s.Text) {
				t.Fatalf("statement %q at %d overlaps, is empty or is not in the text", s.Text, s.Offset)
			}
			// What lies between two statements holds none, and a statement is one.
			if between, err := schema.Split(src[end:s.Offset]); err != nil || len(between) != 0 {
				t.Fatalf("between statements: %q: %v", src[end:s.Offset], err)
			}
			if again, err := schema.Split(s.Text); err != nil || len(again) != 1 || again[0].Text != s.Text {
				t.Fatalf("%q splits again into %v: %v", s.Text, again, err)
			}
			end = s.Offset + len(s.Text)
		}
		if rest, err := schema.Split(src[end:]); err != nil || len(rest) != 0 {
			t.Fatalf("after the last statement: %q: %v", src[end:], err)
		}
	})
}
