package segment

// Cut divides msgs, in order, into runs that respect the bounds of a segment.
func Cut(msgs []Message) [][]Message {
	var runs [][]Message
	start, size := 0, 0
	for i := range msgs {
		n := msgs[i].Size()
		if i > start && (i-start == MaxMessages || size+n > MaxRawBytes) {
			runs = append(runs, msgs[start:i:i])
			start, size = i, 0
		}
		size += n
	}
	if start < len(msgs) {
		runs = append(runs, msgs[start:])
	}
	return runs
}
