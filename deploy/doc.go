// Package deploy holds what one puts beside sketchlimitd: an image, Kubernetes
// manifests, a systemd unit, alerts and a dashboard. Its tests hold these against the
// service.
package deploy
