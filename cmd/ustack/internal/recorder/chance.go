package recorder

import (
	"fmt"
	"math/rand/v2"
	"strconv"

	"ustack/render/record"
	"ustack/render/tally"
)

// Chance is the probability with which something is recorded, 0 for always.
type Chance float64

// Set implements flag.Value.
func (c *Chance) Set(word string) error {
	p, err := strconv.ParseFloat(word, 64)
	if err != nil || !(p >= 1/tally.MaxWeight && p <= 1) {
		return fmt.Errorf("it is a number from %g to 1", 1/tally.MaxWeight)
	}
	*c = Chance(p)
	return nil
}

// String implements flag.Value.
func (c *Chance) String() string { return strconv.FormatFloat(float64(*c), 'g', -1, 64) }

// Happens reports whether it is recorded this time.
func (c Chance) Happens() bool { return c == 0 || c == 1 || rand.Float64() < float64(c) }

// fields returns the weight, which says for how many the report stands.
func (c Chance) fields() []record.Field {
	if c == 0 || c == 1 {
		return nil
	}
	return record.FieldsOf("weight", strconv.FormatFloat(1/float64(c), 'f', -1, 64))
}
