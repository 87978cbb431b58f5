package main

import (
	"io"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// pageWidth is what all tables and texts keep to.
const pageWidth = 100

// writeText prints the sections for a terminal or a pipe. Errors of w are its own
// business: it is a buffer.
func writeText(w io.StringWriter, summary string, sections []section) {
	_, _ = w.WriteString(wrap(summary, "") + "\n")
	for _, s := range sections {
		_, _ = w.WriteString("\n" + s.Title + "\n" + strings.Repeat("═", text.StringWidth(s.Title)) + "\n" +
			wrap(s.Prose, "") + "\n")
		if s.Table.Rows != nil {
			_, _ = w.WriteString("\n" + s.Table.text() + "\n")
		}
		for _, n := range s.Notes {
			_, _ = w.WriteString("\n" + wrap(n, "") + "\n")
		}
	}
}

func (g grid) text() string {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateHeader: true}
	style.Box.PaddingLeft, style.Box.PaddingRight = " ", " "
	style.Format.Header = text.FormatDefault
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	if g.Head != nil {
		t.AppendHeader(cells(g.Head, " "))
	}
	for i, row := range g.Rows {
		mark := " "
		if i == g.Mark {
			mark = "▸"
		}
		t.AppendRow(cells(row, mark))
	}
	t.SetColumnConfigs(g.columns())
	return t.Render()
}

// cells puts the mark of a row before its first cell.
func cells(row []string, mark string) table.Row {
	var r table.Row
	for i, c := range row {
		if i == 0 {
			c = mark + strings.ReplaceAll(c, "\n", "\n"+mark)
		}
		r = append(r, c)
	}
	return r
}

func (g grid) columns() []table.ColumnConfig {
	if g.Head == nil {
		names := 0
		for _, row := range g.Rows {
			names = max(names, text.StringWidth(row[0]))
		}
		return []table.ColumnConfig{{Number: 2, WidthMax: pageWidth - names - 5, WidthMaxEnforcer: text.WrapSoft}}
	}
	var c []table.ColumnConfig
	for i := range g.Head {
		column := table.ColumnConfig{Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight, VAlignHeader: text.VAlignBottom}
		if i < g.Text {
			column.Align, column.AlignHeader = text.AlignLeft, text.AlignLeft
		}
		if i > 0 && i < g.Text { // a first column begins with its mark, which wrapping would eat
			column.WidthMax, column.WidthMaxEnforcer = 36, text.WrapSoft
		}
		c = append(c, column)
	}
	return c
}

// wrap breaks prose into lines that begin with indent. What is in backticks stays in
// one line.
func wrap(prose, indent string) string {
	const blank = "\x00" // in code
	parts := strings.Split(prose, "`")
	for i := 1; i < len(parts)-1; i += 2 {
		if text.StringWidth(parts[i]) < pageWidth/2 {
			parts[i] = strings.ReplaceAll(parts[i], " ", blank)
		}
	}
	var b strings.Builder
	width := 0
	for _, word := range strings.Fields(strings.Join(parts, "`")) {
		word = strings.ReplaceAll(word, blank, " ")
		n := text.StringWidth(word)
		switch {
		case width == 0:
			b.WriteString(indent)
			width = text.StringWidth(indent)
		case width+1+n > pageWidth:
			b.WriteString("\n" + indent)
			width = text.StringWidth(indent)
		default:
			b.WriteString(" ")
			width++
		}
		b.WriteString(word)
		width += n
	}
	return b.String()
}
