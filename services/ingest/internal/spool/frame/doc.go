// Package frame is the form of a spool's files: a header, then records one after the other. It reads and writes bytes and
// knows neither what a record holds nor where files lie.
//
// A file begins with
//
//	magic (8 bytes) | CRC-32C (4) | version (2) | 0 (2) | spool id (16) | number of the file (8) | its first sequence (8)
//
// and a record is
//
//	mark (4) | length of the body (4) | CRC-32C (4) | sequence (8) | version (1) | flags (1) | body
//
// with integers in little-endian order. Both checksums cover everything but themselves and begin with the spool's id, and
// the mark is made of that id. So bytes of another spool, and bytes that a producer chose to look like a record, are no
// record here: the id is random and never told to anybody.
//
// Sequences count the records of a spool. Within a file they only rise. When a file says that it begins with a sequence,
// records of earlier files with that sequence or a higher one were never answered for, see package spool.
//
// # Damage
//
// A Scanner that meets bytes which are no record looks for the next place where one begins, and reports what lies between
// as one piece. Nothing else is lost to it, whatever was flipped, overwritten or left out. Only what the end of a file
// cuts short is called torn.
package frame
