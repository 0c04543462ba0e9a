// Package retention calls the procedures that remove what is not needed any more. It is their only caller; what each
// removes, and why nobody is hurt by it, is written in sql/broker/procedures. Every call is one step of a task and a
// transaction: it changes nothing when the task has another holder. The package keeps no state.
package retention
