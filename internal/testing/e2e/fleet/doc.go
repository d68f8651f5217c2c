// Package fleet holds tests of workers as processes of their own: the test
// binary starts itself as a worker, and kills and replaces workers while orders
// flow.
package fleet
