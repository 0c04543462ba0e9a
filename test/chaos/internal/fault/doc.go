// Package fault does to a stand what machines, networks and clocks do to services. A fault is a row of the registry and a
// file: it draws doses, and a dose strikes, lasts and is healed. All choices are drawn from the seed of the run before
// anything happens, so that a seed repeats them; a dose waits to strike until work is under way where it strikes, and
// tells whether there was any.
//
// # Concurrency
//
// Run has one dose after the other happen and in the last third of its time two at once, each in a goroutine of its own that
// it waits for; doses at the same time never take the same thing (Dose.On). When Run returns everything is healed.
package fault
