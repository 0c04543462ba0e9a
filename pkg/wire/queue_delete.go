package wire

// AppendQueueDeleted appends the body that answers the deletion of a queue.
func AppendQueueDeleted(dst []byte, name string, existed bool) []byte {
	if !existed {
		dst = append(dst, `{"deleted":false,"queue":`...)
		dst = AppendString(dst, name)
		return append(dst, `,"existed":false,"message":"Queue not found, nothing was deleted"}`...)
	}
	dst = append(dst, `{"deleted":true,"queue":`...)
	dst = AppendString(dst, name)
	return append(dst, `,"existed":true}`...)
}
