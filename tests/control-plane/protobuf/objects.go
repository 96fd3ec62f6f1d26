package main

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"math/rand"
	"reflect"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// writeObjects prints random objects of each kind. Their JSON is that of the
// object which is decoded from their bytes, as the server does with what it has stored.
func writeObjects(
	out *bufio.Writer, all *runtime.Scheme, kinds []schema.GroupVersionKind, seed int64, count int,
) error {
	codec := protobuf.NewSerializer(all, all)
	for round := 0; round < count; round++ {
		for at, kind := range kinds {
			fill := filler{rand.New(rand.NewSource(seed<<32 + int64(round)<<12 + int64(at)))}
			object, err := all.New(kind)
			if err != nil {
				return err
			}
			fill.value(reflect.ValueOf(object).Elem(), 0)
			object.GetObjectKind().SetGroupVersionKind(kind)
			var encoded bytes.Buffer
			if err := codec.Encode(object, &encoded); err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			decoded, _, err := codec.Decode(encoded.Bytes(), nil, nil)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			text, err := json.Marshal(decoded)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			version, name := kind.ToAPIVersionAndKind()
			_, err = fmt.Fprintf(out, "%s %s %s %s\n", version, name, base64.StdEncoding.EncodeToString(encoded.Bytes()), text)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// stable leaves out the versions that may change, and lists, of which one is like all others.
func stable(kinds []schema.GroupVersionKind) []schema.GroupVersionKind {
	var some []schema.GroupVersionKind
	for _, kind := range kinds {
		list := strings.HasSuffix(kind.Kind, "List") && kind.Kind != "PodList"
		if !list && !strings.Contains(kind.Version, "alpha") && !strings.Contains(kind.Version, "beta") {
			some = append(some, kind)
		}
	}
	return some
}

// filler fills values at random, with what a client may send.
type filler struct{ *rand.Rand }

var (
	words = []string{
		"", "a", "web", "kube-system", "nginx:1.27", "a b", "\"quoted\"", "back\\slash", "line\nbreak", "<&>", "ü", "日本", "\u2028",
	}
	quantities = []string{"0", "1", "100m", "1500m", "1Gi", "512Mi", "0.5", "1e3", "12E", "-3", "250u"}
	texts      = []string{`{}`, `{"a":1}`, `{"f:metadata":{"f:labels":{".":{}}}}`, `[1,"x",null,true]`, `"text"`, `1.5`, `-7`, `false`}
)

func (f filler) value(value reflect.Value, depth int) {
	switch one := value.Addr().Interface().(type) {
	case *meta.Time:
		one.Time = time.Unix(f.Int63n(4_000_000_000)-1000, 0)
		return
	case *meta.MicroTime:
		one.Time = time.Unix(f.Int63n(4_000_000_000), f.Int63n(1_000_000)*1000)
		return
	case *resource.Quantity:
		*one = resource.MustParse(quantities[f.Intn(len(quantities))])
		return
	case *intstr.IntOrString:
		*one = intstr.FromInt32(f.Int31n(100) - 10)
		if f.Intn(2) == 0 {
			*one = intstr.FromString(words[f.Intn(len(words))])
		}
		return
	case *runtime.RawExtension:
		one.Raw = f.json(3)
		return
	case *meta.FieldsV1:
		one.Raw = f.json(3)
		return
	}
	switch value.Type().Name() {
	case "JSON":
		value.FieldByName("Raw").SetBytes(f.json(len(texts)))
		return
	case "JSONSchemaPropsOrBool":
		allows, schema := value.FieldByName("Allows"), value.FieldByName("Schema")
		allows.SetBool(f.Intn(2) == 0)
		if depth < 8 && f.Intn(2) == 0 {
			allows.SetBool(true)
			schema.Set(reflect.New(schema.Type().Elem()))
			f.value(schema.Elem(), depth+2)
		}
		return
	case "JSONSchemaPropsOrArray", "JSONSchemaPropsOrStringArray":
		one := value.Field(f.Intn(2))
		if one.Kind() == reflect.Pointer {
			one.Set(reflect.New(one.Type().Elem()))
			one = one.Elem()
		} else {
			one.Set(reflect.MakeSlice(one.Type(), 1, 1))
			one = one.Index(0)
		}
		if depth < 8 {
			f.value(one, depth+2)
		}
		return
	}
	f.plain(value, depth)
}

func (f filler) plain(value reflect.Value, depth int) {
	switch value.Kind() {
	case reflect.Bool:
		value.SetBool(f.Intn(2) == 0)
	case reflect.Int32:
		value.SetInt(int64([]int32{0, 1, -1, 80, math.MaxInt32, math.MinInt32}[f.Intn(6)]))
	case reflect.Int64:
		value.SetInt([]int64{0, 1, -1, 1 << 40, math.MaxInt64, math.MinInt64}[f.Intn(6)])
	case reflect.Float64:
		value.SetFloat([]float64{0, 1, -2.5, 1e-7, 123456789.125, 1e300}[f.Intn(6)])
	case reflect.String:
		value.SetString(words[f.Intn(len(words))])
	case reflect.Pointer:
		if f.some(depth) {
			value.Set(reflect.New(value.Type().Elem()))
			f.value(value.Elem(), depth+1)
		}
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			value.SetBytes([]byte(words[f.Intn(len(words))]))
			if value.Len() == 0 {
				value.SetZero()
			}
			return
		}
		if f.some(depth) {
			value.Set(reflect.MakeSlice(value.Type(), 1+f.Intn(2), 2))
			for at := 0; at < value.Len(); at++ {
				f.value(value.Index(at), depth+1)
			}
		}
	case reflect.Map:
		if f.some(depth) {
			value.Set(reflect.MakeMap(value.Type()))
			for range 1 + f.Intn(2) {
				key, one := reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem()
				key.SetString(words[f.Intn(len(words))])
				f.value(one, depth+1)
				if one.Kind() != reflect.Slice || !one.IsNil() {
					value.SetMapIndex(key, one)
				}
			}
			if value.Len() == 0 {
				value.SetZero()
			}
		}
	case reflect.Struct:
		if value.Type().Name() == "JSONSchemaProps" {
			// Each schema may have a dozen others.
			depth += 4
		}
		for at := 0; at < value.NumField(); at++ {
			if of := value.Type().Field(at); of.IsExported() && of.Tag.Get("protobuf") != "" {
				f.value(value.Field(at), depth)
			}
		}
	default:
		panic("cannot fill " + value.Type().String())
	}
}

// some is whether something that may be absent is there: the deeper, the rarer.
func (f filler) some(depth int) bool {
	return depth < 10 && f.Intn(2+depth) < 2
}

func (f filler) json(of int) []byte { return []byte(texts[f.Intn(of)]) }
