"""Kubernetes manifests: objects in a stream, pods in them, and what their containers start."""
