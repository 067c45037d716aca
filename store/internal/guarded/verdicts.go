package guarded

import (
	"strings"
	"sync"
	"sync/atomic"
)

const (
	// maxVerdicts and maxJudged bound what is remembered: so many texts, none
	// longer than that. A program has few statements, unless it writes values
	// into them.
	maxVerdicts = 1000
	maxJudged   = 2 << 10
)

// verdicts remembers what was found about statements, which are read word by
// word otherwise each time that a handler sends one.
type verdicts struct {
	byText sync.Map // string to Verdict
	count  atomic.Int64
}

func (p *Pool) judge(query string) Verdict {
	if v, ok := p.judged.byText.Load(query); ok {
		return v.(Verdict)
	}
	v := p.rules.Judge(query)
	if len(query) <= maxJudged && p.judged.count.Load() < maxVerdicts {
		p.judged.count.Add(1)
		p.judged.byText.Store(strings.Clone(query), v)
	}
	return v
}
