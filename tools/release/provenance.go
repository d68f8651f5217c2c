package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"

	slsa "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// provenance writes what each file was made of, as SLSA has it: the commit, the compiler and
// what the command was told. It is not signed: whoever releases signs it.
func (b *build) provenance(platforms []string) error {
	statement, err := b.statement(platforms)
	if err != nil {
		return err
	}
	loose, err := protojson.Marshal(statement)
	if err != nil {
		return err
	}
	// protojson spaces its output differently from program to program, on purpose.
	var text bytes.Buffer
	if err := json.Indent(&text, loose, "", "  "); err != nil {
		return err
	}
	text.WriteByte('\n')
	out, err := b.create("provenance.json")
	if err != nil {
		return err
	}
	if _, err := text.WriteTo(out); err != nil {
		_ = out.Close()
		return err
	}
	return out.Close()
}

func (b *build) statement(platforms []string) (*intoto.Statement, error) {
	s := &intoto.Statement{Type: intoto.StatementTypeUri, PredicateType: "https://slsa.dev/provenance/v1"}
	for _, name := range b.made {
		sum, err := b.sum(name)
		if err != nil {
			return nil, err
		}
		s.Subject = append(s.Subject, &intoto.ResourceDescriptor{Name: name, Digest: map[string]string{"sha256": sum}})
	}
	list := make([]any, len(platforms))
	for i, p := range platforms {
		list[i] = p
	}
	told, err := structpb.NewStruct(map[string]any{"version": b.version, "platforms": list, "SOURCE_DATE_EPOCH": fmt.Sprint(b.when.Unix())})
	if err != nil {
		return nil, err
	}
	made := &slsa.Provenance{
		BuildDefinition: &slsa.BuildDefinition{
			BuildType:          "urn:orderpost:release:1",
			ExternalParameters: told,
			ResolvedDependencies: []*intoto.ResourceDescriptor{
				{Name: "orderpost", Digest: map[string]string{"gitCommit": b.commit}},
				{Name: "go", Uri: "pkg:golang/std@" + runtime.Version()[2:]},
			},
		},
		RunDetails: &slsa.RunDetails{Builder: &slsa.Builder{Id: "urn:orderpost:make-release"}},
	}
	if err := made.Validate(); err != nil {
		return nil, err
	}
	text, err := protojson.Marshal(made)
	if err != nil {
		return nil, err
	}
	s.Predicate = new(structpb.Struct)
	if err := protojson.Unmarshal(text, s.Predicate); err != nil {
		return nil, err
	}
	return s, s.Validate()
}
