package crdt

import (
	"errors"
	"testing"
)

func TestVersionRefusesJunk(t *testing.T) {
	two := VersionOf([]Hash{{1}, {2}})
	for _, v := range []Version{"", "x", "AA", "AQ==", "AR", two[:len(two)-1], two + "A", two + "\n", "AQAA",
		VersionOf([]Hash{{3}})[:43] + two, Version(make([]byte, 1<<20))} {
		if heads, err := v.Heads(); !errors.Is(err, ErrVersion) || heads != nil {
			t.Errorf("%.20q gives %v, %v", v, heads, err)
		}
	}
	heads, err := VersionOf(nil).Heads()
	if err != nil || len(heads) != 0 {
		t.Errorf("the empty document's version gives %v, %v", heads, err)
	}
}
