package wire

import "strconv"

// Buffers is the state of pushes that wait outside of the database.
type Buffers struct {
	Pending   int64 // messages on disk
	Failed    int64 // messages that could be stored nowhere, since the start
	DBHealthy bool
}

// BufferServer is the state at one server, or why it is not known.
type BufferServer struct {
	Server string
	Buffers
	Error string
}

// AppendBuffers appends the answer of one server. The worker is there for old clients; there is one.
func AppendBuffers(dst []byte, b Buffers) []byte {
	return append(appendBuffers(append(dst, '{'), b), '}')
}

func appendBuffers(dst []byte, b Buffers) []byte {
	dst = strconv.AppendInt(append(dst, `"pending":`...), b.Pending, 10)
	dst = strconv.AppendInt(append(dst, `,"failed":`...), b.Failed, 10)
	dst = strconv.AppendBool(append(dst, `,"dbHealthy":`...), b.DBHealthy)
	return append(dst, `,"worker":0`...)
}

// AppendBuffersOf appends the answer for several servers: the sums of those that are known, and each of them. The database
// is healthy when every server that is known says so, and one is.
func AppendBuffersOf(dst []byte, servers []BufferServer) []byte {
	var sum Buffers
	known := 0
	healthy := true
	for i := range servers {
		if s := &servers[i]; s.Error == "" {
			known++
			sum.Pending += s.Pending
			sum.Failed += s.Failed
			healthy = healthy && s.DBHealthy
		}
	}
	sum.DBHealthy = healthy && known > 0
	dst = append(appendBuffers(append(dst, '{'), sum), `,"servers":[`...)
	for i := range servers {
		s := &servers[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(append(dst, `{"server":`...), s.Server)
		if s.Error != "" {
			dst = AppendString(append(dst, `,"error":`...), s.Error)
		} else {
			dst = appendBuffers(append(dst, ','), s.Buffers)
		}
		dst = append(dst, '}')
	}
	return append(dst, "]}"...)
}
