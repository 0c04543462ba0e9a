// Package segment encodes the messages of one stored segment and reads them back. A segment is the unit in which
// messages are written, compressed and deleted; its bytes are made once, by the service that appends, and never change.
//
// The form, version 1: for each message a frame of
//
//	flags (1 byte) | message id (16) | transaction id | trace id (16) | producer | payload
//
// where texts and payload carry a length as unsigned varint, and the parts that flags does not name are absent: a
// transaction id equal to the message id's text, a missing trace, a missing producer. Frames follow each other without
// padding; the number of messages is known from the segment's offsets and checked. The codec says how the frames are
// compressed.
package segment
