//go:build !unix

package main

import "os/exec"

func inGroup(*exec.Cmd) {}

func endGroup(cmd *exec.Cmd) error { return cmd.Process.Kill() }
