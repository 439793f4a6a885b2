package lock

import "testing"

func TestUnlockedHoldsNothing(t *testing.T) {
	h := Unlocked()
	for range 2 {
		if err := h.Err(); err != nil {
			t.Error("Err:", err)
		}
		if err := h.Check(t.Context()); err != nil {
			t.Error("Check:", err)
		}
		if err := new(Manager).Vacate(t.Context(), h); err != nil {
			t.Error("Vacate:", err)
		}
		h.Share().Release()
		h.Release()
	}
}
