package doc

// DiffText is what turns a whole new text into operations.
var DiffText = diffText

// Faults is how many documents have one.
func (l *Library) Faults() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.faults)
}
