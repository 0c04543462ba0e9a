package wire

import "testing"

func TestBuffersHaveTheContractsShape(t *testing.T) {
	t.Parallel()
	if got := string(AppendBuffers(nil, Buffers{Pending: 412, DBHealthy: false})); got != `{"pending":412,"failed":0,"dbHealthy":false,"worker":0}` {
		t.Error(got)
	}
	for want, servers := range map[string][]BufferServer{
		`{"pending":0,"failed":0,"dbHealthy":false,"worker":0,"servers":[]}`: nil,
		`{"pending":3,"failed":1,"dbHealthy":true,"worker":0,"servers":[{"server":"a:1","pending":1,"failed":0,"dbHealthy":true,"worker":0},` +
			`{"server":"b:1","pending":2,"failed":1,"dbHealthy":true,"worker":0},{"server":"c:1","error":"gone \"away\""}]}`: {
			{Server: "a:1", Buffers: Buffers{1, 0, true}}, {Server: "b:1", Buffers: Buffers{2, 1, true}}, {Server: "c:1", Error: `gone "away"`},
		},
		`{"pending":1,"failed":0,"dbHealthy":false,"worker":0,"servers":[{"server":"a:1","pending":1,"failed":0,"dbHealthy":false,"worker":0},` +
			`{"server":"b:1","pending":0,"failed":0,"dbHealthy":true,"worker":0}]}`: {
			{Server: "a:1", Buffers: Buffers{1, 0, false}}, {Server: "b:1", Buffers: Buffers{0, 0, true}},
		},
	} {
		if got := string(AppendBuffersOf(nil, servers)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
