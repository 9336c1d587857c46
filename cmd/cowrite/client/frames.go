package client

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
)

// maxFrameBytes bounds one line of an event stream.
const maxFrameBytes = 16 << 20

// Frame is a frame of an event stream (HTML Living Standard, section 9.2.6).
type Frame struct {
	Data  string
	Retry string // how many milliseconds to wait before coming back, where the server says it; else ""
}

// Frames reads an event stream to its end, which a cut is as well.
func Frames(r io.Reader) iter.Seq2[Frame, error] {
	return func(yield func(Frame, error) bool) {
		lines := bufio.NewScanner(r)
		lines.Buffer(nil, maxFrameBytes)
		var data strings.Builder
		var frame Frame
		for lines.Scan() {
			field, value, _ := strings.Cut(lines.Text(), ":")
			value = strings.TrimPrefix(value, " ")
			switch field {
			case "data":
				if data.Len() > 0 {
					data.WriteByte('\n')
				}
				data.WriteString(value)
			case "retry":
				frame.Retry = value
			case "":
				if lines.Text() != "" { // a comment
					continue
				}
				if frame.Data = data.String(); frame != (Frame{}) && !yield(frame, nil) {
					return
				}
				data.Reset()
				frame = Frame{}
			}
		}
		if err := lines.Err(); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
			yield(Frame{}, fmt.Errorf("read the event stream: %w", err))
		}
	}
}
