// Load puts load on a running Queen and tells what it did: producers push, consumer groups pop and ack, as fast as they
// are answered or to a schedule. Every message is checked: whether all that was acknowledged arrives, in order, once, as it
// was sent; the program fails when one does not. With -yardstick it lets PostgreSQL alone take turns with the load and
// prints the ratios.
//
//	make up DETACH=1
//	cd test && go run ./load -producers 16 -consumers 16 -batch 100 -duration 10s
//	go run ./load -rate 200 -batch 1 -consumers 4 -partitions 64
//
// The bars of the project are measured by ./load/bench, which is made of the same parts.
package main
