package wire

import "fmt"

// configureKeys are the keys of a configure that mean something, on either level.
var configureKeys = func() map[string]bool {
	keys := map[string]bool{"queue": true, "mode": true, "options": true}
	for _, option := range optionKeys {
		keys[option.key] = true
	}
	for _, label := range labelKeys {
		keys[label.key] = true
	}
	return keys
}()

// members are the values of an object as they are written, by key; of a repeated key the last. Only the wanted keys are
// kept, so that a body of a million keys costs no more than its bytes. JSON that is no object has no members.
func members(text []byte, wanted map[string]bool) (map[string][]byte, error) {
	s := scanner{data: text}
	found := make(map[string][]byte)
	if s.blanks() != '{' {
		s.value(0)
	} else {
		for more := s.open(0) && s.first('}'); more; more = s.next('}') {
			key, ok := s.key()
			if !ok {
				break
			}
			s.blanks()
			start := s.pos
			if !s.value(1) {
				break
			}
			if name, ok := unescape(nil, key); ok && wanted[string(name)] {
				found[string(name)] = text[start:s.pos]
			}
		}
	}
	if s.reason == "" {
		if s.blanks(); s.pos < len(s.data) {
			s.fail("more follows after the end of the value")
		}
	}
	if s.reason != "" {
		return nil, badBody("", fmt.Sprintf("%s (byte %d)", s.reason, s.pos))
	}
	return found, nil
}
