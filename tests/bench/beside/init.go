// The answer to init as a driver in Go gives it, and nothing else of a driver.
package main

import (
	"encoding/json"
	"os"
)

type capabilities struct {
	Attach           bool `json:"attach"`
	SELinuxRelabel   bool `json:"selinuxRelabel"`
	SupportsMetrics  bool `json:"supportsMetrics"`
	FSGroup          bool `json:"fsGroup"`
	RequiresFSResize bool `json:"requiresFSResize"`
}

type reply struct {
	Status       string        `json:"status"`
	Capabilities *capabilities `json:"capabilities,omitempty"`
	Message      string        `json:"message,omitempty"`
}

func main() {
	answer := reply{Status: "Not supported"}
	if len(os.Args) > 1 && os.Args[1] == "init" {
		answer = reply{Status: "Success", Capabilities: &capabilities{true, true, true, true, true}}
	}
	if err := json.NewEncoder(os.Stdout).Encode(answer); err != nil {
		os.Exit(1)
	}
}
