// Chaos tries to break a Queen of real processes: clients push, pop and ack while services and PostgreSQL are killed and
// stopped, connections cut and slowed, disks filled, files torn and clocks moved. Afterwards everything is healed, the
// queues are read to their ends, and what the clients were answered is compared with what is stored. All choices follow
// from one seed.
//
//	cd test && go run ./chaos run -seed 7 -workload queue,log -faults kill,cut -t 60s
//	go run ./chaos list
//
// It prints a line that begins with VALID, INVALID or UNKNOWN, and for the last two what is wrong, the command that
// repeats the run, and the folder with its history and logs, which is kept. The exit code is 0 for VALID only.
//
// Its tests are the short tier: six runs, and those that have failed once (regressions.txt).
package main
