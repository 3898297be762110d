// Command kstatus reads objects from its standard input, as JSON, and prints for each how kstatus judges it, as Flux CD,
// Helm and kpt do.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

func main() {
	if err := judge(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func judge(objects io.Reader, results io.Writer) error {
	decoder := json.NewDecoder(objects)
	for {
		var object json.RawMessage
		if err := decoder.Decode(&object); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read an object: %w", err)
		}
		// Not by the decoder: numbers are whole as Kubernetes' own decoder has them.
		var parsed unstructured.Unstructured
		if err := parsed.UnmarshalJSON(object); err != nil {
			return fmt.Errorf("read an object: %w", err)
		}
		result, err := status.Compute(&parsed)
		if err != nil {
			return fmt.Errorf("compute the status of %s: %w", parsed.GetName(), err)
		}
		fmt.Fprintln(results, result.Status)
	}
}
