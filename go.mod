module github.com/vnetradar/radar

go 1.26
