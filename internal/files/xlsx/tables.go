package xlsx

// totalsRow is where a table of a sheet has its totals.
type totalsRow struct {
	table    string
	from, to int
}

// maxTables bounds the tables of a sheet that are looked at.
const maxTables = 1000

// tables returns the rows of a sheet that have the totals of its tables.
func (b *Book) tables(sheet string) (out []totalsRow, err error) {
	relations, err := b.relations(sheet)
	if err != nil {
		return nil, err
	}
	seen := 0
	for _, r := range relations {
		if r.kind != "table" {
			continue
		}
		if seen++; seen > maxTables {
			break
		}
		err := b.each(r.target, func(depth int, tag string, attrs map[string]string) error {
			n, _ := readCount([]byte(attrs["totalsRowCount"]))
			_, to, ok := readArea(attrs["ref"])
			if depth == 0 && tag == "table" && ok && n > 0 {
				name := attrs["displayName"]
				if name == "" {
					name = attrs["name"]
				}
				out = append(out, totalsRow{name, to - n + 1, to})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
