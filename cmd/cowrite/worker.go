package main

type workerCommand struct{}

func (workerCommand) Run() error { return nil }
