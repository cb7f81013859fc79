module goself

go 1.22
