package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// meshSettings is a service's settings as far as the mesh goes.
type meshSettings struct{ Mesh }

func loadMesh(t *testing.T, env map[string]string) (Mesh, error) {
	t.Helper()
	for _, name := range []string{"QUEEN_SERVER_ID", "HOSTNAME"} {
		t.Setenv(name, "")
	}
	for name, value := range env {
		t.Setenv(name, value)
	}
	s := meshSettings{NewMesh()}
	err := Load(&s)
	return s.Mesh, err
}

func TestMeshTakesTheOldNamesWhenTheNewOnesAreBlank(t *testing.T) {
	got, err := loadMesh(t, map[string]string{
		"QUEEN_UDP_NOTIFY_PORT": "7000", "QUEEN_UDP_PEERS": "old", "QUEEN_MESH_PEERS": " ", "HOSTNAME": "pod-1",
	})
	if err != nil || got.MeshPort != 7000 || got.ServerID != "pod-1" || got.MeshPeers.String() != "old" {
		t.Errorf("%+v, %v", got, err)
	}
	got, err = loadMesh(t, map[string]string{
		"QUEEN_UDP_NOTIFY_PORT": "7000", "QUEEN_MESH_PORT": "7001", "QUEEN_MESH_PEERS": "new", "QUEEN_SERVER_ID": "me", "HOSTNAME": "pod-1",
	})
	if err != nil || got.MeshPort != 7001 || got.ServerID != "me" || got.MeshPeers.String() != "new" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestMeshPeersAreHostsWithOrWithoutAPort(t *testing.T) {
	t.Parallel()
	m := NewMesh()
	m.MeshPeers = List{"a", "b:7000", "http://c:7001", "https://d", "e:bad", "[::1]:9", "::1", "10.0.0.1", "f:0", "g:70000"}
	want := []string{
		"a:6633", "b:7000", "c:7001", "d:6633", "[e:bad]:6633", "[::1]:9", "[::1]:6633", "10.0.0.1:6633", "[f:0]:6633", "[g:70000]:6633",
	}
	if diff := cmp.Diff(want, m.Seeds()); diff != "" {
		t.Errorf("seeds (-want +got):\n%s", diff)
	}
}

func TestMeshRefusesWhatCannotWorkOrProvesNothing(t *testing.T) {
	for want, env := range map[string]map[string]string{
		`QUEEN_MESH_PORT="70000" is not between 0 and 65535`:         {"QUEEN_MESH_PORT": "70000"},
		`QUEEN_UDP_NOTIFY_PORT="x" is not an integer`:                {"QUEEN_UDP_NOTIFY_PORT": "x"},
		`QUEEN_MESH_BIND_ADDR="0.0.0.0:1" carries a port`:            {"QUEEN_MESH_BIND_ADDR": "0.0.0.0:1"},
		`QUEEN_MESH_CLUSTER="a.b" is not a name`:                     {"QUEEN_MESH_CLUSTER": "a.b"},
		`QUEEN_MESH_TLS_CERT and QUEEN_MESH_TLS_KEY belong together`: {"QUEEN_MESH_TLS_CERT": "x"},
		`QUEEN_MESH_TLS_CERT needs QUEEN_MESH_TLS_CA`:                {"QUEEN_MESH_TLS_CERT": "x", "QUEEN_MESH_TLS_KEY": "y"},
		`QUEEN_MESH_URL is not a list`:                               {"QUEEN_MESH_URL": "nats://"},
		`QUEEN_MESH_URL names "bus:4222", which is not this machine`: {"QUEEN_MESH_URL": "nats://bus:4222"},
		`QUEEN_SYNC_ENABLED="maybe" is not a boolean`:                {"QUEEN_SYNC_ENABLED": "maybe"},
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := loadMesh(t, env); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("got %v", err)
			}
		})
	}
	for _, env := range []map[string]string{
		{"QUEEN_MESH_URL": "127.0.0.1:4222"},
		{"QUEEN_MESH_URL": "nats://bus:4222", "QUEEN_SYNC_SECRET": "x"},
		{"QUEEN_MESH_URL": "nats://user:password@bus:4222, nats://user:password@bus2:4222"},
	} {
		if m, err := loadMesh(t, env); err != nil || m.Mode() != "external" {
			t.Errorf("%v: %v, %s", env, err, m.Mode())
		}
	}
}

func TestMeshBlockMasksWhatIsSecret(t *testing.T) {
	t.Parallel()
	m := NewMesh()
	m.SyncSecret, m.MeshURL, m.Credentials, m.ServerID = "hunter2", "nats://user:hunter2@bus", "SUhunter2", "ingest-0"
	got := logged(nil, &meshSettings{m}, m.Block())
	if strings.Contains(got, "hunter2") {
		t.Error(got)
	}
	want := `msg="config: sync" target=boot enabled=true mesh_active=true mode=external server_id=ingest-0 cluster=queen mesh_port=6633`
	if !strings.Contains(got, want) || !strings.Contains(got, `secret="<set:7 chars>"`) {
		t.Error(got)
	}
}
