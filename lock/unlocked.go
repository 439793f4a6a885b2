package lock

// unlocked is the tenure of the holds that hold nothing.
var unlocked = &tenure{}

// Unlocked returns a hold of no lock: it stands whatever others do. It is for
// measuring what the locks cost, on a tree that nothing else writes to.
func Unlocked() *Hold { return &Hold{t: unlocked} }
