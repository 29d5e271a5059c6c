package main

import "github.com/anishathalye/porcupine"

// What one register, and one lock, would do.
var models = map[string]porcupine.Model{
	"register": {Init: func() interface{} { return uint64(0) }, Step: stepRegister},
	"lock":     {Init: func() interface{} { return lock{} }, Step: stepLock},
}

func stepRegister(state, input, output interface{}) (bool, interface{}) {
	value, one := state.(uint64), input.(operation)
	known := output.(operation).Outcome != nil
	switch one.Action {
	case "read":
		return !known || one.Told == value, value
	case "write":
		return true, one.Value
	default: // cas
		next := value
		if value == one.Expected {
			next = one.Value
		}
		return !known || one.Told == value, next
	}
}

// A lock: who holds it (0: nobody), with which token (0: one that nobody was told), and the largest token so far.
type lock struct{ holder, token, newest uint64 }

func stepLock(state, input, output interface{}) (bool, interface{}) {
	now, one := state.(lock), input.(operation)
	outcome := output.(operation).Outcome
	free := lock{newest: now.newest}
	mine := now.holder == one.Process
	switch one.Action {
	case "leave": // its process is in a view no more: it loses the lock
		if mine {
			return true, free
		}
		return true, now
	case "release":
		gives := mine && now.token == one.Value
		if gives {
			now = free
		}
		return outcome == nil || gives == (*outcome == "done"), now
	default: // acquire
		switch {
		case outcome == nil && now.holder == 0:
			return true, lock{holder: one.Process, newest: now.newest}
		case outcome == nil:
			return true, now
		case *outcome == "granted":
			granted := lock{holder: one.Process, token: one.Told, newest: one.Told}
			return now.holder == 0 && one.Told > now.newest, granted
		default: // held
			return now.holder == one.Holder && (now.token == one.Told || now.token == 0), now
		}
	}
}
