package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Error is an answer with a status that says no.
type Error struct {
	Status     int
	Message    string // the answer's "error", or its first line when it is not JSON
	Code       string // the answer's "code", mostly empty
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	text := fmt.Sprintf("status %d: %s", e.Status, e.Message)
	if e.Code != "" {
		text += " (" + e.Code + ")"
	}
	return text
}

// TransportError is an attempt without a complete answer. What the request did, if it arrived, is not known.
type TransportError struct{ Err error }

func (e *TransportError) Error() string { return "no answer: " + e.Err.Error() }
func (e *TransportError) Unwrap() error { return e.Err }

// Transient reports whether the same call may succeed later: there was no answer, or the answer asks to come again.
func Transient(err error) bool {
	var transport *TransportError
	if errors.As(err, &transport) {
		return true
	}
	var answered *Error
	return errors.As(err, &answered) &&
		(answered.Status == http.StatusServiceUnavailable || answered.Status == http.StatusTooManyRequests)
}

func answerError(resp *http.Response, body []byte) error {
	e := &Error{Status: resp.StatusCode}
	var fields struct {
		Error string `json:"error"`
		Code  string `json:"code"`
	}
	if json.Unmarshal(body, &fields) == nil && fields.Error != "" {
		e.Message, e.Code = fields.Error, fields.Code
	} else {
		e.Message, _, _ = strings.Cut(strings.TrimSpace(string(body)), "\n")
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}
