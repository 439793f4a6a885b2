package lock

import "github.com/lockfs/lockfs/procid"

// Judge says of a process whether it is alive; (*procid.Local).Judge is one.
type Judge func(procid.ID) procid.Judgement
