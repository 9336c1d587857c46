package doc

import "strings"

// A position is a fractional index: a string read as the digits of a fraction between 0 and 1, so that between
// any two there is always another. The digits are the printable ASCII characters in their order, '!' being
// zero. What is written here uses letters and digits as far as it can; replicas may write any.
const (
	lowestDigit  = '!'
	highestDigit = '~'
	base         = int(highestDigit-lowestDigit) + 1

	maxPositionLength = 1024
)

// validPosition says whether a section can be ordered by it. Anything else sorts last.
func validPosition(p string) bool {
	if p == "" || len(p) > maxPositionLength {
		return false
	}
	for _, c := range []byte(p) {
		if c < lowestDigit || c > highestDigit {
			return false
		}
	}
	return true
}

// positionBetween gives a position behind a and before b; "" stands for the start and the end. Where nothing
// lies between (equal, in the wrong order, or apart by trailing zeros alone) it gives one behind a.
func positionBetween(a, b string) string {
	b = strings.TrimRight(b, string(lowestDigit))
	if b <= a {
		b = ""
	}
	var out []byte
	bounded := b != "" // what was written so far equals b's beginning
	for i := 0; ; i++ {
		low, high := 0, base
		if i < len(a) {
			low = int(a[i] - lowestDigit)
		}
		if bounded {
			high = 0
			if i < len(b) {
				high = int(b[i] - lowestDigit)
			}
		}
		if high-low > 1 {
			return string(append(out, middleDigit(low, high)))
		}
		out = append(out, byte(low)+lowestDigit)
		bounded = bounded && low == high
	}
}

// middleDigit is a digit between two values, both excluded; a letter or digit where there is one.
func middleDigit(low, high int) byte {
	middle := (low + high) / 2
	for d := 0; d < base; d++ {
		for _, v := range [2]int{middle - d, middle + d} {
			if v > low && v < high && isAlphanumeric(byte(v)+lowestDigit) {
				return byte(v) + lowestDigit
			}
		}
	}
	return byte(middle) + lowestDigit
}

func isAlphanumeric(c byte) bool {
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')
}

// positionsFor gives n positions, evenly spread, in order.
func positionsFor(n int) []string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	width, room := 1, len(digits)
	for room <= n+1 {
		width, room = width+1, room*len(digits)
	}
	out := make([]string, n)
	for i := range out {
		v := (i + 1) * room / (n + 1)
		p := make([]byte, width)
		for j := width - 1; j >= 0; j-- {
			p[j] = digits[v%len(digits)]
			v /= len(digits)
		}
		out[i] = string(p)
	}
	return out
}
