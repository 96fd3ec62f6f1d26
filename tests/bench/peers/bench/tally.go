package bench

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Sent is the annotation that says when the driver wrote the object.
const Sent = "bench.kooper.dev/sent"

// What is kept for an index before a time is known.
const (
	unseen = 0
	unsent = 1
)

// Tally counts handler calls, distinct objects and the latency of changes.
// It costs eight bytes for each object, so that it is not what is measured.
type Tally struct {
	last    []atomic.Int64
	objects atomic.Int64
	calls   atomic.Int64
	read    atomic.Int64

	mutex     sync.Mutex
	latencies []int64
	awaited   int
}

// NewTally returns a tally of objects with the indices below expect.
func NewTally(expect int) *Tally {
	return &Tally{last: make([]atomic.Int64, expect)}
}

// Saw counts one handler call for the object of this name.
func (t *Tally) Saw(name, image string, annotations map[string]string) {
	t.calls.Add(1)
	t.read.Add(int64(len(image)))
	index, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	if err != nil || index < 0 || index >= len(t.last) {
		return
	}
	sent, _ := strconv.ParseInt(annotations[Sent], 10, 64)
	sent = max(sent, unsent)
	before := t.last[index].Swap(sent)
	switch {
	case before == unseen:
		if objects := t.objects.Add(1); objects == int64(len(t.last)) {
			printLine(synced{"synced", objects})
		}
	case sent > unsent && sent != before:
		t.changed(sent)
	}
}

func (t *Tally) changed(sent int64) {
	latency := max(time.Now().UnixNano()-sent, 0) / 1000
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.latencies = append(t.latencies, latency)
	if len(t.latencies) == t.awaited {
		printLine(reached{"reached", t.awaited})
	}
}

func (t *Tally) reset(awaited int) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.calls.Store(0)
	t.read.Store(0)
	t.latencies = make([]int64, 0, awaited)
	t.awaited = awaited
}

func (t *Tally) report() report {
	t.mutex.Lock()
	latencies := slices.Clone(t.latencies)
	t.mutex.Unlock()
	slices.Sort(latencies)
	return report{
		Event:   "report",
		Objects: t.objects.Load(),
		Calls:   t.calls.Load(),
		Read:    t.read.Load(),
		Changes: len(latencies),
		P50:     percentile(latencies, 50),
		P99:     percentile(latencies, 99),
		Max:     percentile(latencies, 100),
	}
}

// percentile is the nearest-rank one; 0 of nothing.
func percentile(sorted []int64, percent int) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max((len(sorted)*percent+99)/100, 1)-1]
}
