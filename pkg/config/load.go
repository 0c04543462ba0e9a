package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

	"github.com/kelseyhightower/envconfig"
)

// validator is a block whose fields constrain each other or have rules no tag can say.
type validator interface{ Validate() error }

// Load fills dst, a pointer to a struct that already holds its defaults, from the environment. The error is the first
// mistake found, as one line that names the variable and its value.
func Load(dst any) error {
	root := reflect.ValueOf(dst)
	if root.Kind() != reflect.Pointer || root.Elem().Kind() != reflect.Struct {
		return fmt.Errorf("config: %T is not a pointer to a struct", dst)
	}
	fields, err := fieldsOf(root.Elem())
	if err != nil {
		return err
	}
	if err := envconfig.Process("", dst); err != nil {
		return describe(err)
	}
	for _, f := range fields {
		if err := f.finish(); err != nil {
			return err
		}
	}
	return validate(root.Elem())
}

// describe turns envconfig's error into the one line an operator reads.
func describe(err error) error {
	var parse *envconfig.ParseError
	if !errors.As(err, &parse) {
		return err
	}
	return fmt.Errorf("%s=%s %w", parse.KeyName, quote(parse.Value), parse.Err)
}

// quote puts the value between quotes as it was given: escapes would hide a stray blank or backslash.
func quote(value string) string { return `"` + value + `"` }

// field is one setting of a struct that Load fills.
type field struct {
	names []string // of the variables it is read from
	tag   reflect.StructTag
	value reflect.Value
}

// fieldsOf lists the settings of a struct, those of its embedded blocks included. Its errors are mistakes in the
// struct's declaration, not in the environment.
func fieldsOf(block reflect.Value) ([]field, error) {
	var fields []field
	for i := range block.NumField() {
		declared, value := block.Type().Field(i), block.Field(i)
		if declared.Anonymous && value.Kind() == reflect.Struct {
			inner, err := fieldsOf(value)
			if err != nil {
				return nil, err
			}
			fields = append(fields, inner...)
			continue
		}
		if !declared.IsExported() {
			continue
		}
		f := field{tag: declared.Tag, value: value}
		if chain := declared.Tag.Get("chain"); chain != "" {
			f.names = strings.Split(chain, ",")
		} else if name := declared.Tag.Get("envconfig"); name != "" {
			f.names = []string{name}
		} else if declared.Tag.Get("ignored") == "" {
			// envconfig would read the bare field name, or a prefixed one for a block that is not embedded.
			return nil, fmt.Errorf("config: field %s of %s names no variable; embed blocks", declared.Name, block.Type())
		}
		fields = append(fields, f)
	}
	return fields, nil
}

// finish applies what envconfig does not know: chains of names, floors and ranges.
func (f field) finish() error {
	if f.tag.Get("chain") != "" {
		if err := f.takeFirst(); err != nil {
			return err
		}
	}
	n, ok := f.value.Interface().(Int)
	if !ok {
		return nil
	}
	if floor, ok := f.floor(); ok && n < floor {
		f.value.SetInt(int64(floor))
	}
	if low, high, ok := f.bounds(); ok && (n < low || n > high) {
		return fmt.Errorf("%s=%s is not between %d and %d", f.names[0], quote(strconv.FormatInt(int64(n), 10)), low, high)
	}
	return nil
}

// takeFirst fills a field that has several names from the first variable that is not blank.
func (f field) takeFirst() error {
	for _, name := range f.names {
		value := os.Getenv(name)
		if strings.TrimSpace(value) == "" {
			continue
		}
		setter, ok := f.value.Addr().Interface().(envconfig.Setter)
		if !ok {
			f.value.SetString(value)
			return nil
		}
		if err := setter.Set(value); err != nil {
			return fmt.Errorf("%s=%s %w", name, quote(value), err)
		}
		return nil
	}
	return nil
}

func (f field) floor() (Int, bool) {
	n, err := strconv.ParseInt(f.tag.Get("floor"), 10, 64)
	return Int(n), err == nil
}

func (f field) bounds() (low, high Int, ok bool) {
	first, last, _ := strings.Cut(f.tag.Get("range"), "..")
	if low.Set(first) != nil || high.Set(last) != nil {
		return 0, 0, false
	}
	return low, high, first != "" && last != ""
}

// validate asks every embedded block, then the struct itself.
func validate(block reflect.Value) error {
	for i := range block.NumField() {
		if declared := block.Type().Field(i); declared.Anonymous && block.Field(i).Kind() == reflect.Struct {
			if err := validate(block.Field(i)); err != nil {
				return err
			}
		}
	}
	if v, ok := block.Addr().Interface().(validator); ok {
		return v.Validate()
	}
	return nil
}
