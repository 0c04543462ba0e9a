package wire

import (
	"encoding/json"
	"strconv"

	"queen.internal/pkg/queue"
)

// ScanEnabled reads the body that turns a mode on or off. Everything else is an error of kind Invalid that names the field.
func ScanEnabled(body []byte) (on bool, err error) {
	var fields map[string]json.RawMessage // a struct would match the key in any case
	if json.Unmarshal(body, &fields) == nil {
		switch string(fields["enabled"]) {
		case "true":
			return true, nil
		case "false":
			return false, nil
		}
	}
	return false, queue.Invalid("enabled", "enabled (boolean) is required")
}

// Maintenance is how the two modes are, and what waits outside of the database.
type Maintenance struct {
	Push, Pop bool
	Buffers   Buffers
	Healthy   bool  // the database answers, and pushes can be spooled
	Files     int   // that wait to be drained
	Bytes     int64 // of them
}

// MaintenanceServer is the state at one server, or why it is not known.
type MaintenanceServer struct {
	Server string
	Maintenance
	Error string
}

// AppendMaintenance appends the answer of one server.
func AppendMaintenance(dst []byte, m *Maintenance) []byte {
	return append(appendMaintenance(append(dst, '{'), m), '}')
}

// appendMaintenance has the contract's keys. There is one kind of file, which all of them are.
func appendMaintenance(dst []byte, m *Maintenance) []byte {
	dst = strconv.AppendBool(append(dst, `"maintenanceMode":`...), m.Push)
	dst = strconv.AppendBool(append(dst, `,"popMaintenanceMode":`...), m.Pop)
	dst = strconv.AppendInt(append(dst, `,"bufferedMessages":`...), m.Buffers.Pending, 10)
	dst = strconv.AppendBool(append(dst, `,"bufferHealthy":`...), m.Healthy)
	dst = strconv.AppendInt(append(dst, `,"bufferStats":{"pendingCount":`...), m.Buffers.Pending, 10)
	dst = strconv.AppendInt(append(dst, `,"failedCount":`...), m.Buffers.Failed, 10)
	dst = strconv.AppendBool(append(dst, `,"dbHealthy":`...), m.Buffers.DBHealthy)
	dst = strconv.AppendInt(append(dst, `,"failedFiles":{"count":`...), int64(m.Files), 10)
	dst = strconv.AppendInt(append(dst, `,"totalBytes":`...), m.Bytes, 10)
	dst = append(append(dst, `,"totalMB":`...), megabytes(m.Bytes)...)
	dst = strconv.AppendInt(append(dst, `,"failoverCount":`...), int64(m.Files), 10)
	return append(dst, `,"qos0Count":0}}`...)
}

// megabytes has four places, and at zero one.
func megabytes(bytes int64) string {
	if bytes == 0 {
		return "0.0"
	}
	return strconv.FormatFloat(float64(bytes)/(1<<20), 'f', 4, 64)
}

// AppendMaintenanceOf appends the answer for several servers: the sums of those that are known, and each of them. A mode is
// on when one server says so.
func AppendMaintenanceOf(dst []byte, servers []MaintenanceServer) []byte {
	sum := sumMaintenance(servers)
	dst = append(appendMaintenance(append(dst, '{'), &sum), `,"servers":`...)
	return append(appendServers(dst, servers), '}')
}

func sumMaintenance(servers []MaintenanceServer) (sum Maintenance) {
	known, healthy, answers := false, true, true
	for i := range servers {
		if s := &servers[i]; s.Error == "" {
			known = true
			sum.Push, sum.Pop = sum.Push || s.Push, sum.Pop || s.Pop
			sum.Buffers.Pending += s.Buffers.Pending
			sum.Buffers.Failed += s.Buffers.Failed
			healthy, answers = healthy && s.Healthy, answers && s.Buffers.DBHealthy
			sum.Files += s.Files
			sum.Bytes += s.Bytes
		}
	}
	sum.Healthy, sum.Buffers.DBHealthy = healthy && known, answers && known
	return sum
}

func appendServers(dst []byte, servers []MaintenanceServer) []byte {
	dst = append(dst, '[')
	for i := range servers {
		s := &servers[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendString(append(dst, `{"server":`...), s.Server)
		if s.Error != "" {
			dst = AppendString(append(dst, `,"error":`...), s.Error)
		} else {
			dst = appendMaintenance(append(dst, ','), &s.Maintenance)
		}
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// What is told of a mode that was turned, and of pop maintenance when somebody asks. Clients compare these literally.
const (
	pushTurnedOn  = "Maintenance mode ENABLED. All PUSHes routing to file buffer."
	pushTurnedOff = "Maintenance mode DISABLED. Background processor will drain buffer to DB."
	popTurnedOn   = "Pop maintenance mode ENABLED. All POP operations will return empty arrays."
	popTurnedOff  = "Pop maintenance mode DISABLED. Normal operation resumed."
	popIsOn       = "Pop maintenance mode is ON. All POP operations return empty arrays."
	popIsOff      = "Pop maintenance mode is OFF. Normal operation."
)

// Turned is the outcome of turning push maintenance on or off.
type Turned struct {
	On       bool
	Buffered int64 // messages that wait
	Healthy  bool
	Unstored bool // the database could not be told yet
}

// AppendTurned appends the answer to turning push maintenance on or off. servers are listed when there are any; then it is
// their sums that count.
func AppendTurned(dst []byte, t Turned, servers []MaintenanceServer) []byte {
	if len(servers) > 0 {
		sum := sumMaintenance(servers)
		t.Buffered, t.Healthy = sum.Buffers.Pending, sum.Healthy
	}
	dst = strconv.AppendBool(append(dst, `{"maintenanceMode":`...), t.On)
	dst = strconv.AppendInt(append(dst, `,"bufferedMessages":`...), t.Buffered, 10)
	dst = strconv.AppendBool(append(dst, `,"bufferHealthy":`...), t.Healthy)
	dst = appendTurned(dst, either(t.On, pushTurnedOn, pushTurnedOff), t.Unstored)
	if len(servers) > 0 {
		dst = appendServers(append(dst, `,"servers":`...), servers)
	}
	return append(dst, '}')
}

// appendTurned appends the message, and when it is so that a restart of all could forget it.
func appendTurned(dst []byte, message string, unstored bool) []byte {
	dst = AppendString(append(dst, `,"message":`...), message)
	if unstored {
		return append(dst, `,"stored":false`...)
	}
	return dst
}

// AppendPopMaintenance appends the answer to whoever asks for pop maintenance.
func AppendPopMaintenance(dst []byte, on bool) []byte {
	dst = strconv.AppendBool(append(dst, `{"popMaintenanceMode":`...), on)
	return append(appendTurned(dst, either(on, popIsOn, popIsOff), false), '}')
}

// AppendPopTurned appends the answer to turning pop maintenance on or off; see Turned for unstored.
func AppendPopTurned(dst []byte, on, unstored bool) []byte {
	dst = strconv.AppendBool(append(dst, `{"popMaintenanceMode":`...), on)
	return append(appendTurned(dst, either(on, popTurnedOn, popTurnedOff), unstored), '}')
}

func either(on bool, yes, no string) string {
	if on {
		return yes
	}
	return no
}
