package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// row is an object whose fields keep their order and names in every output format.
type row []field

type field struct {
	name  string
	value any    // string, bool, number, row or []row
	text  string // in tables, where it differs from value
}

// MarshalJSON implements json.Marshaler.
func (r row) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range r {
		if i > 0 {
			b.WriteByte(',')
		}
		v, err := json.Marshal(f.value)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&b, "%q:%s", f.name, v)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// label is the name for people. A unit goes where the value shows its own.
func (f field) label() string {
	name := f.name
	if f.text != "" {
		name = strings.TrimSuffix(name, "_ms")
	}
	return strings.ReplaceAll(name, "_", " ")
}

func (f field) show() string {
	if f.text != "" {
		return f.text
	}
	return fmt.Sprint(f.value)
}

// format is the value of -o for listings.
type format string

func (f *format) add(c *cobra.Command) {
	*f = "table"
	c.Flags().StringVarP((*string)(f), "output", "o", "table", "table, json or yaml")
	c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

func (f format) check() error {
	switch f {
	case "table", "json", "yaml":
		return nil
	}
	return usagef("-o %q: want table, json or yaml", string(f))
}

// list prints a listing: a table, or one array. An empty table is only its header.
func (f format) list(w io.Writer, header []string, rows []row) error {
	switch f {
	case "json":
		if rows == nil {
			rows = []row{}
		}
		return writeJSON(w, rows)
	case "yaml":
		return writeYAML(w, rows)
	}
	return writeTable(w, header, rows)
}

// object prints one thing: lines of name and value, lists in it as tables, or one object.
func (f format) object(w io.Writer, r row) error {
	switch f {
	case "json":
		return writeJSON(w, r)
	case "yaml":
		return writeYAML(w, r)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, f := range r {
		if list, ok := f.value.([]row); ok {
			if err := t.Flush(); err != nil {
				return err
			}
			fmt.Fprintln(w)
			if err := writeTable(w, names(list), list); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(t, "%s:\t%s\n", f.label(), f.show())
	}
	return t.Flush()
}

func names(rows []row) []string {
	var all []string
	if len(rows) > 0 {
		for _, f := range rows[0] {
			all = append(all, f.name)
		}
	}
	return all
}

func writeTable(w io.Writer, header []string, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, strings.ToUpper(strings.ReplaceAll(strings.Join(header, "\t"), "_", " ")))
	for _, r := range rows {
		cells := make([]string, len(r))
		for i, f := range r {
			cells[i] = f.show()
		}
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// writeYAML prints rows in block style. Strings are quoted as in JSON, which YAML reads as they are.
func writeYAML(w io.Writer, v any) error {
	var b bytes.Buffer
	if err := yamlValue(&b, v, ""); err != nil {
		return err
	}
	_, err := w.Write(b.Bytes())
	return err
}

func yamlValue(b *bytes.Buffer, v any, indent string) error {
	switch v := v.(type) {
	case []row:
		if len(v) == 0 {
			b.WriteString(indent + "[]\n")
		}
		for _, r := range v {
			start := b.Len()
			if err := yamlValue(b, r, indent+"  "); err != nil {
				return err
			}
			copy(b.Bytes()[start+len(indent):], "- ")
		}
		return nil
	case row:
		for _, f := range v {
			switch f.value.(type) {
			case row, []row:
				fmt.Fprintf(b, "%s%s:\n", indent, f.name)
				if err := yamlValue(b, f.value, indent+"  "); err != nil {
					return err
				}
				continue
			}
			fmt.Fprintf(b, "%s%s: ", indent, f.name)
			if err := yamlValue(b, f.value, ""); err != nil {
				return err
			}
		}
		return nil
	}
	scalar, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b.Write(scalar)
	b.WriteByte('\n')
	return nil
}
