# The one-pass rewriter that replay is measured against: a frame gets the file
# announced before it. Frames of the first stack to use a file, whose
# announcement is still to come, stay as they are.
/ file_map: hash=/ { i=index($0,"hash="); s=substr($0,i+5); j=index(s," path="); m[substr(s,1,j-1)]=substr(s,j+1); next }
/^ =>  </ { n=split($0,a," : "); if (n==2 && (a[2] in m)) { print a[1] " : " m[a[2]]; next } }
{ print }
