package once

import (
	"fmt"
	"strings"
	"time"
)

// problems collects what is wrong with a configuration.
type problems []string

func (p *problems) add(format string, args ...any) {
	*p = append(*p, fmt.Sprintf(format, args...))
}

func (p *problems) duration(field string, d time.Duration) {
	switch {
	case d < 0:
		p.add("%s %s is negative: use a positive duration, or 0 for the default", field, d)
	case d > 0 && d < time.Millisecond:
		p.add("%s %s is shorter than a millisecond: was its unit forgotten (5*time.Second)?", field, d)
	}
}

func (p *problems) count(field string, n int) {
	if n < 0 {
		p.add("%s %d is negative: use a positive number, or 0 for the default", field, n)
	}
}

func (p *problems) policy(field string, policy FingerprintPolicy) {
	if policy < 0 || policy > FingerprintOff {
		p.add("%s %d is unknown: use FingerprintReject, FingerprintWarn or FingerprintOff", field, int(policy))
	}
}

func (p *problems) service(s string) {
	if strings.Contains(s, "/") {
		p.add("Service %q contains a slash, which ends it in a consumer's name: leave it out", s)
		return
	}
	if err := checkPart("Service", s); err != nil {
		p.add("%v", err)
	}
}

func (p *problems) err() error {
	if len(*p) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrConfig, strings.Join(*p, "; "))
}
