package engine

import (
	"github.com/sketchlimit/sketchlimit/internal/audit"
	"github.com/sketchlimit/sketchlimit/internal/spec"
)

type (
	Rule       = spec.Rule
	Dimensions = spec.Dimensions
	Verdict    = spec.Verdict
)

const (
	MaxShards  = spec.MaxShards
	MaxWindow  = spec.MaxWindow
	MaxMemory  = spec.MaxMemory
	BucketBits = spec.BucketBits
	SpareShare = spec.SpareShare

	SpareBytes       = spec.StateBytes
	BucketStateBytes = spec.StateBytes
)

var (
	HeapBytes = spec.HeapBytes
	HeapUnit  = spec.HeapUnit
	CellBits  = spec.CellBits
	NewWindow = spec.NewWindow
	NewBucket = spec.NewBucket
	NewAudit  = audit.Of
)
