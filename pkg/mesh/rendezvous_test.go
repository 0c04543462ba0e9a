package mesh

import "testing"

func TestEachProcessGoesFirstAtItsShareOfThePartitions(t *testing.T) {
	t.Parallel()
	const partitions = 30_000
	ids := []string{"queen-a-deliver", "queen-b-deliver", "queen-c-deliver"}
	shares := map[string]int{}
	for partition := range int64(partitions) {
		first := ""
		for _, id := range ids {
			ahead := true
			for _, other := range ids {
				if Before(id, other, partition) && Before(other, id, partition) {
					t.Fatalf("%s and %s both go first at %d", id, other, partition)
				}
				ahead = ahead && !Before(other, id, partition)
			}
			if !ahead {
				continue
			}
			if first != "" {
				t.Fatalf("%s and %s go first at %d", first, id, partition)
			}
			first = id
		}
		shares[first]++
	}
	for _, id := range ids {
		if n := shares[id]; n < partitions*3/10 || n > partitions*11/30 {
			t.Errorf("%s goes first at %d of %d", id, n, partitions)
		}
	}
	if shares[""] != 0 {
		t.Errorf("nobody goes first at %d partitions", shares[""])
	}
}
