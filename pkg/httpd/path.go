package httpd

import (
	"net/url"
	"strings"
)

// restoreRawPath repairs the raw form of a path that mixes escapes with bytes which should have been escaped, such as
// a%2Fé with the é in plain UTF-8. net/url gives the raw form up for such a path and would escape the decoded one,
// where %2F has become a separator.
func restoreRawPath(u *url.URL) {
	if u.RawPath == "" || u.EscapedPath() == u.RawPath {
		return
	}
	var b strings.Builder
	for i := range len(u.RawPath) {
		const allowed = "/%:@!$&'()*+,;=-._~[]"
		c := u.RawPath[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte(allowed, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		const digits = "0123456789ABCDEF"
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	u.RawPath = b.String()
}
