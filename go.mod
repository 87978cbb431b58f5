module github.com/sketchlimit/sketchlimit

go 1.25
