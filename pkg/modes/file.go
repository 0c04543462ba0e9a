package modes

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"queen.internal/pkg/files"
)

// line is a switch in the file.
type line struct {
	Key     string `json:"key"`
	Enabled bool   `json:"enabled"`
	Version int64  `json:"version"`
	Stored  bool   `json:"stored"`
}

// load takes over what an earlier process has left. A file that cannot be read counts as none.
func (k *Keeper) load() {
	if k.o.Path == "" {
		return
	}
	data, err := os.ReadFile(k.o.Path)
	var lines []line
	if err == nil {
		err = json.Unmarshal(data, &lines)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		k.o.Logger.Warn("what is kept of the switches of the cell cannot be read", "err", err)
		return
	}
	k.saved = data
	for _, l := range lines {
		for _, m := range all {
			if m.key == l.Key {
				k.take(m.name, "file", func(h *held) bool {
					h.on, h.version, h.stored, h.known = l.Enabled, l.Version, l.Stored, true
					return true
				})
				if !l.Stored { // what the database has had is told when it has it still
					k.announce(m)
				}
			}
		}
	}
}

// save replaces the file when it has something else. It has nothing of a switch of which nothing is known.
func (k *Keeper) save() {
	if k.o.Path == "" {
		return
	}
	<-k.saving
	defer func() { k.saving <- struct{}{} }()
	lines := make([]line, 0, len(all))
	for _, m := range all {
		if now := k.copy(m.name); now.known {
			lines = append(lines, line{m.key, now.on, now.version, now.stored})
		}
	}
	data, err := json.Marshal(lines)
	if err == nil && len(lines) > 0 && string(data) != string(k.saved) {
		if err = files.Replace(k.o.Path, data); err == nil {
			k.saved = data
		}
	}
	if err != nil {
		k.o.Logger.Warn("the switches of the cell cannot be kept", "err", err)
	}
}
