package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
)

type synced struct {
	Event   string `json:"event"`
	Objects int64  `json:"objects"`
}

type reached struct {
	Event   string `json:"event"`
	Changes int    `json:"changes"`
}

type answer struct {
	Event string `json:"event"`
}

type report struct {
	Event   string `json:"event"`
	Objects int64  `json:"objects"`
	Calls   int64  `json:"calls"`
	Read    int64  `json:"read"`
	Changes int    `json:"changes"`
	P50     int64  `json:"p50_us"`
	P99     int64  `json:"p99_us"`
	Max     int64  `json:"max_us"`
}

// Serve obeys the commands on standard input; quit and the end of the input end the process.
func (t *Tally) Serve() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		command := strings.TrimSpace(lines.Text())
		awaited, isReset := strings.CutPrefix(command, "reset ")
		switch {
		case command == "quit":
			os.Exit(0)
		case command == "report":
			printLine(t.report())
		case isReset:
			count, err := strconv.Atoi(awaited)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				continue
			}
			t.reset(count)
			printLine(answer{"reset"})
		default:
			fmt.Fprintln(os.Stderr, "no such command:", command)
		}
	}
	os.Exit(0)
}

// printLine writes one JSON line to standard output in one write.
func printLine(line any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	// The driver is gone when standard output is: the end of standard input ends the program.
	_, _ = os.Stdout.Write(append(text, '\n'))
}
