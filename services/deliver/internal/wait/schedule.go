package wait

// unscheduled is the place of a spot that has no time.
const unscheduled = -1

// schedule is a heap of spots by their earliest time.
type schedule []*Spot

func (s schedule) Len() int           { return len(s) }
func (s schedule) Less(i, j int) bool { return s[i].at().Before(s[j].at()) }

func (s schedule) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].place, s[j].place = i, j
}

// Push implements heap.Interface.
func (s *schedule) Push(x any) {
	spot := x.(*Spot)
	spot.place = len(*s)
	*s = append(*s, spot)
}

// Pop implements heap.Interface.
func (s *schedule) Pop() any {
	last := len(*s) - 1
	spot := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	spot.place = unscheduled
	return spot
}
