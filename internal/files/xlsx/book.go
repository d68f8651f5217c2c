package xlsx

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/klauspost/compress/flate"
)

// Book is a workbook. It is not safe for concurrent use.
type Book struct {
	source *source
	parts  map[string]*zip.File
	temp   string
	sheets []Sheet
	// date1904 says that days are counted from 1904, as Excel for the Mac did.
	date1904 bool
	// stale says that the stored values of formulas are not those that a spreadsheet would
	// show: it must calculate them first.
	stale   bool
	formats []format // by the number of a cell's style
	strings stringTable
}

// Sheet is one sheet of a workbook.
type Sheet struct {
	Name   string
	Hidden bool
	part   string
}

const (
	// maxSheets bounds the sheets of a workbook.
	maxSheets = 1000
	// maxSheetName bounds the name of a sheet. Spreadsheets take 31 characters.
	maxSheetName = 255
)

// Open reads what a workbook says of itself. The caller must close the book and keep r
// unchanged until then. temp is the folder for the texts that cells share, if they are
// many; "" = the system's. The errors say what the file is and what to do.
func Open(r io.ReaderAt, size int64, temp string) (b *Book, err error) {
	b = &Book{source: &source{r: r}, temp: temp, parts: make(map[string]*zip.File)}
	if err := b.readDirectory(size); err != nil {
		return nil, err
	}
	book, err := b.findBook()
	if err != nil {
		return nil, err
	}
	relations, err := b.relations(book)
	if err != nil {
		return nil, err
	}
	if err := b.readBook(book, relations); err != nil {
		return nil, err
	}
	for _, r := range relations {
		switch r.kind {
		case "styles":
			err = b.readStyles(r.target)
		case "sharedStrings":
			b.strings = stringTable{b: b, part: r.target}
		}
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Close frees what the book holds.
func (b *Book) Close() error { return b.strings.close() }

func (b *Book) readDirectory(size int64) error {
	head := make([]byte, 8)
	n, err := b.source.ReadAt(head, 0)
	if n < len(head) && b.source.failed != nil {
		return err
	}
	switch {
	case bytes.HasPrefix(head, magicOLE):
		return notXML(b.source)
	case !IsZip(head):
		return ErrNoWorkbook
	}
	archive, err := Directory(b.source, size)
	switch {
	case b.source.failed != nil:
		return b.source.failed
	case errors.Is(err, ErrDirectory):
		return errors.New("the archive has far more parts than a workbook; save it anew in a spreadsheet")
	case err != nil:
		return &Damaged{"", errors.New("its zip archive cannot be read, or is cut off")}
	}
	archive.RegisterDecompressor(zip.Deflate, func(r io.Reader) io.ReadCloser { return flate.NewReader(r) })
	for _, f := range archive.File {
		key := partKey(f.Name)
		if b.parts[key] != nil && !strings.HasSuffix(f.Name, "/") {
			return &Damaged{f.Name, errors.New("it is there twice")}
		}
		b.parts[key] = f
	}
	return nil
}

// IsZip reports whether a file that begins like this is a zip archive, as workbooks are.
func IsZip(head []byte) bool { return bytes.HasPrefix(head, []byte("PK\x03\x04")) }

// office tells the documents of office programs by the names of the files in them.
var office = []struct{ begin, end, what string }{
	{"xl/", "", ""}, // a workbook
	{"word/", "", "a Word document"},
	{"ppt/", "", "a PowerPoint presentation"},
	{"index/", ".iwa", "a Numbers document"},
	{"meta-inf/manifest.xml", "", "a document of LibreOffice (OpenDocument)"},
}

// ErrNoWorkbook says that a file is neither a workbook nor a document of another program that Open knows.
var ErrNoWorkbook = errors.New("this is no workbook (.xlsx)")

// IsOffice reports whether a file of this name in an archive tells that the archive is a
// document of an office program. Open says of which, if it is no workbook.
func IsOffice(name string) bool {
	_, is := officeOf(partKey(name))
	return is
}

func officeOf(key string) (what string, is bool) {
	for _, o := range office {
		if strings.HasPrefix(key, o.begin) && strings.HasSuffix(key, o.end) {
			return o.what, true
		}
	}
	return "", false
}

var (
	magicOLE  = []byte("\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1")
	encrypted = []byte("E\x00n\x00c\x00r\x00y\x00p\x00t\x00e\x00d\x00P\x00a\x00c\x00k\x00a\x00g\x00e\x00")
)

// IsOLE reports whether a file that begins like this is in the container of old Office
// files, in which workbooks with a password are, too.
func IsOLE(head []byte) bool { return bytes.HasPrefix(head, magicOLE) }

// notXML says what a file in the old container is. The names in it are in UTF-16, in a
// folder that is near the beginning or the end.
func notXML(r io.ReaderAt) error {
	const most = 4 << 20
	found, err := contains(io.NewSectionReader(r, 0, most), encrypted)
	if err != nil {
		return err
	}
	if found {
		return errors.New("the workbook has a password, so that nobody can read it without; remove the password in a spreadsheet (save it without one), and import that")
	}
	return errors.New("this is an old Excel file (.xls), or another file of old Office; save it as a workbook (.xlsx), or as CSV (UTF-8), and import that")
}

// contains reports whether a text occurs in what r returns.
func contains(r io.Reader, text []byte) (bool, error) {
	buf := make([]byte, 64<<10)
	kept := 0
	for {
		n, err := r.Read(buf[kept:])
		if bytes.Contains(buf[:kept+n], text) {
			return true, nil
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		keep := min(len(text)-1, kept+n)
		kept = copy(buf, buf[kept+n-keep:kept+n])
	}
}

// findBook returns the name of the part that describes the workbook, or an error that
// says what the archive is instead.
func (b *Book) findBook() (string, error) {
	relations, err := b.relations("")
	if err != nil {
		return "", err
	}
	name := ""
	for _, r := range relations {
		if r.kind == "officeDocument" {
			name = r.target
		}
	}
	has := func(part string) bool { return b.parts[part] != nil }
	document, book := "", false
	for key := range b.parts {
		if what, is := officeOf(key); is && what == "" {
			book = true
		} else if is {
			document = what
		}
	}
	switch lower := strings.ToLower(name); {
	case strings.HasSuffix(lower, ".bin") && book:
		return "", errors.New("this is a binary workbook (.xlsb); save it as a workbook (.xlsx), and import that")
	case document != "" && !book:
		return "", fmt.Errorf("this is %s; save its table as a workbook (.xlsx), or as CSV (UTF-8), and import that", document)
	case name == "" && !book:
		return "", errors.New("this is a zip archive, and no workbook; unpack it and import the file in it")
	case name == "" || !has(partKey(name)):
		return "", &Damaged{name, errors.New("the part that lists the sheets is missing")}
	case has("xl/vbaproject.bin"):
		return "", errMacros
	}
	return name, b.each("[Content_Types].xml", func(_ int, _ string, attrs map[string]string) error {
		if strings.Contains(attrs["ContentType"], "macroEnabled") && partKey(attrs["PartName"]) == partKey(name) {
			return errMacros
		}
		return nil
	})
}

var errMacros = errors.New("the workbook has macros (.xlsm), which are refused here; save it as a workbook without macros (.xlsx), and import that")

func (b *Book) readBook(name string, relations map[string]relation) error {
	err := b.each(name, func(depth int, tag string, attrs map[string]string) error {
		switch {
		case tag == "workbookPr" && depth == 1:
			b.date1904 = isTrue(attrs["date1904"])
		case tag == "calcPr" && depth == 1:
			b.stale = isTrue(attrs["fullCalcOnLoad"]) || attrs["calcMode"] == "manual" && attrs["calcOnSave"] != "" && !isTrue(attrs["calcOnSave"])
		case tag == "sheet" && depth == 2:
			r := relationOf(attrs, relations)
			if r.kind != "worksheet" { // a chart, or a sheet of macros
				return nil
			}
			if len(b.sheets) == maxSheets {
				return fmt.Errorf("it has more than %d sheets", maxSheets)
			}
			name := strings.Map(func(r rune) rune { // it becomes part of headers and of messages
				if unicode.IsControl(r) {
					return ' '
				}
				return r
			}, attrs["name"])
			if name == "" || len(name) > maxSheetName {
				return fmt.Errorf("the name of sheet %d has %d bytes", len(b.sheets)+1, len(name))
			}
			b.sheets = append(b.sheets, Sheet{Name: name, Hidden: attrs["state"] != "" && attrs["state"] != "visible", part: r.target})
		}
		return nil
	})
	if err == nil && len(b.sheets) == 0 {
		err = &Damaged{name, errors.New("it lists no sheet with cells")}
	}
	return err
}

func isTrue(text string) bool { return text == "1" || text == "true" || text == "on" }

// Sheets lists the sheets in the order of the workbook.
func (b *Book) Sheets() []Sheet { return b.sheets }

// Sheet returns the sheet of this name. If name is empty it returns the only visible sheet
// that has a cell with content; the error then lists the sheets.
func (b *Book) Sheet(name string) (Sheet, error) {
	var found []Sheet
	for _, s := range b.sheets {
		switch {
		case name != "" && strings.EqualFold(s.Name, name): // the names differ in more than case
			return s, nil
		case name != "" || s.Hidden:
			continue
		}
		empty, err := b.isEmpty(s)
		if err != nil {
			return Sheet{}, err
		}
		if !empty {
			found = append(found, s)
		}
	}
	switch {
	case name != "":
		return Sheet{}, &ChooseSheet{Missing: name, Sheets: b.sheets}
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0 && len(b.sheets) == 1:
		return b.sheets[0], nil
	case len(found) == 0:
		return Sheet{}, &ChooseSheet{Sheets: b.sheets}
	}
	return Sheet{}, &ChooseSheet{Sheets: found}
}

// ChooseSheet is the error of a workbook in which a person must choose the sheet.
type ChooseSheet struct {
	// Missing is the name that no sheet has; "" = none was asked for.
	Missing string
	Sheets  []Sheet
}

// Error lists the sheets.
func (e *ChooseSheet) Error() string {
	const most = 20
	var names []string
	for i, s := range e.Sheets {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(e.Sheets)-most))
			break
		}
		name := fmt.Sprintf("%q", s.Name)
		if s.Hidden {
			name += " (hidden)"
		}
		names = append(names, name)
	}
	list := strings.Join(names, ", ")
	if e.Missing != "" {
		return fmt.Sprintf("the workbook has no sheet %q; it has %s", e.Missing, list)
	}
	return fmt.Sprintf("the workbook has %d sheets, and an import reads one: %s; say which", len(e.Sheets), list)
}

// maxEmpty bounds what is read of a sheet to see whether it has content: a thousand sheets
// that unpack to gigabytes would keep a check busy for hours.
const maxEmpty = 1 << 20

// isEmpty reports whether no cell of a sheet has content. One that begins with very many
// empty cells counts as one with content.
func (b *Book) isEmpty(s Sheet) (bool, error) {
	rows, err := b.Rows(s)
	if err != nil {
		return false, err
	}
	defer func() { _ = rows.Close() }()
	rows.part.left = maxEmpty
	_, err = rows.Next(0)
	switch {
	case errors.Is(err, io.EOF):
		return true, nil
	case errors.Is(err, errTooLarge):
		return false, nil
	}
	return false, err
}
