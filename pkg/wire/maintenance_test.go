package wire

import (
	"testing"

	"queen.internal/pkg/queue"
)

func TestScanEnabled(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{`{"enabled":true}`: true, ` { "enabled" : false , "more": 1 } `: false, `{"enabled":false,"enabled":true}`: true} {
		if got, err := ScanEnabled([]byte(body)); err != nil || got != want {
			t.Errorf("%s: %t %v", body, got, err)
		}
	}
	for _, body := range []string{``, `{}`, `{"enabled":null}`, `{"enabled":1}`, `{"enabled":"true"}`, `{"Enabled":true}`, `[true]`, `true`, `{"enabled":tru`} {
		if _, err := ScanEnabled([]byte(body)); queue.KindOf(err) != queue.KindInvalid {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestMaintenanceHasTheContractsShape(t *testing.T) {
	t.Parallel()
	on := Maintenance{Push: true, Buffers: Buffers{Pending: 412, DBHealthy: true}, Healthy: true, Files: 3, Bytes: 90112}
	const one = `"maintenanceMode":true,"popMaintenanceMode":false,"bufferedMessages":412,"bufferHealthy":true,"bufferStats":{"pendingCount":412,` +
		`"failedCount":0,"dbHealthy":true,"failedFiles":{"count":3,"totalBytes":90112,"totalMB":0.0859,"failoverCount":3,"qos0Count":0}}`
	const none = `"maintenanceMode":false,"popMaintenanceMode":false,"bufferedMessages":0,"bufferHealthy":false,"bufferStats":{"pendingCount":0,` +
		`"failedCount":0,"dbHealthy":false,"failedFiles":{"count":0,"totalBytes":0,"totalMB":0.0,"failoverCount":0,"qos0Count":0}}`
	const sick = `"maintenanceMode":false,"popMaintenanceMode":true,"bufferedMessages":8,"bufferHealthy":false,"bufferStats":{"pendingCount":8,` +
		`"failedCount":2,"dbHealthy":false,"failedFiles":{"count":1,"totalBytes":100,"totalMB":0.0001,"failoverCount":1,"qos0Count":0}}`
	const both = `"maintenanceMode":true,"popMaintenanceMode":true,"bufferedMessages":420,"bufferHealthy":false,"bufferStats":{"pendingCount":420,` +
		`"failedCount":2,"dbHealthy":false,"failedFiles":{"count":4,"totalBytes":90212,"totalMB":0.0860,"failoverCount":4,"qos0Count":0}}`
	servers := []MaintenanceServer{
		{Server: "a:1", Maintenance: on},
		{Server: "b:1", Maintenance: Maintenance{Pop: true, Buffers: Buffers{Pending: 8, Failed: 2}, Files: 1, Bytes: 100}},
		{Server: "c:1", Error: "gone"},
	}
	const list = `"servers":[{"server":"a:1",` + one + `},{"server":"b:1",` + sick + `},{"server":"c:1","error":"gone"}]`
	for _, c := range []struct{ got, want string }{
		{string(AppendMaintenance(nil, &Maintenance{})), `{` + none + `}`},
		{string(AppendMaintenance(nil, &on)), `{` + one + `}`},
		{string(AppendMaintenanceOf(nil, nil)), `{` + none + `,"servers":[]}`},
		{string(AppendMaintenanceOf(nil, servers)), `{` + both + `,` + list + `}`},
		{
			string(AppendTurned(nil, Turned{On: true, Buffered: 412, Healthy: true}, nil)),
			`{"maintenanceMode":true,"bufferedMessages":412,"bufferHealthy":true,"message":"Maintenance mode ENABLED. All PUSHes routing to file buffer."}`,
		},
		{
			string(AppendTurned(nil, Turned{Unstored: true}, servers)),
			`{"maintenanceMode":false,"bufferedMessages":420,"bufferHealthy":false,"message":"Maintenance mode DISABLED. Background processor will drain buffer to DB.",` +
				`"stored":false,` + list + `}`,
		},
		{string(AppendPopMaintenance(nil, false)), `{"popMaintenanceMode":false,"message":"Pop maintenance mode is OFF. Normal operation."}`},
		{string(AppendPopMaintenance(nil, true)), `{"popMaintenanceMode":true,"message":"Pop maintenance mode is ON. All POP operations return empty arrays."}`},
		{
			string(AppendPopTurned(nil, true, true)),
			`{"popMaintenanceMode":true,"message":"Pop maintenance mode ENABLED. All POP operations will return empty arrays.","stored":false}`,
		},
		{string(AppendPopTurned(nil, false, false)), `{"popMaintenanceMode":false,"message":"Pop maintenance mode DISABLED. Normal operation resumed."}`},
	} {
		if c.got != c.want {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
}
