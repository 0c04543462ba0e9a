package pg_test

import (
	"net"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"queen.internal/pkg/pg"
)

// fakeServer lets everybody in and reports the given parameters: a server we cannot start here, such as an old one or a
// pooler. It answers a text of statements with an empty success, and every prepared question with one row of one value.
func fakeServer(t *testing.T, parameters map[string]string, answer string) pg.Config {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { serveFake(conn, parameters, answer) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		wg.Wait()
	})
	return pg.Config{Host: "127.0.0.1", Port: listener.Addr().(*net.TCPAddr).Port, User: "queen", Password: "secret", Database: "queen"}
}

func serveFake(conn net.Conn, parameters map[string]string, answer string) {
	defer func() { _ = conn.Close() }()
	backend := pgproto3.NewBackend(conn, conn)
	if _, err := backend.ReceiveStartupMessage(); err != nil {
		return
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	for name, value := range parameters {
		backend.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	backend.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	for backend.Flush() == nil {
		switch message, err := backend.Receive(); message.(type) {
		case *pgproto3.Query:
			backend.Send(&pgproto3.EmptyQueryResponse{})
			backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Sync:
			backend.Send(&pgproto3.ParseComplete{})
			backend.Send(&pgproto3.BindComplete{})
			backend.Send(&pgproto3.RowDescription{Fields: []pgproto3.FieldDescription{{Name: []byte("answer"), DataTypeOID: 25}}})
			backend.Send(&pgproto3.DataRow{Values: [][]byte{[]byte(answer)}})
			backend.Send(&pgproto3.CommandComplete{CommandTag: []byte("SHOW")})
			backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
		case *pgproto3.Terminate:
			return
		default:
			if err != nil {
				return
			}
		}
	}
}
